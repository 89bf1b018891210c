"""The questions to the server that its own document describes."""

from typing import Any

from run_benches.cli import described
from run_benches.places import ROOT


def test_what_no_schema_can_say_is_left_out_and_nothing_else() -> None:
    def parameter(name: str) -> dict[str, str]:
        return {"$ref": f"#/components/parameters/{name}"}

    own = {"name": "category", "in": "query"}
    document = {
        "paths": {
            "/Product": {
                "get": {"parameters": [own, parameter("limit"), parameter("after"), parameter("stream")]},
                "post": {"responses": {}},
            },
            "/Product/{id}": {
                "parameters": [parameter("id")],
                "put": {"parameters": [parameter("If-Match"), parameter("If-Absent")]},
            },
        }
    }
    paths = described.testable(document)["paths"]
    assert paths["/Product"]["get"]["parameters"] == [own, parameter("limit")]
    assert paths["/Product"]["post"] == {"responses": {}}
    assert paths["/Product/{id}"] == {"parameters": [parameter("id")], "put": {"parameters": [parameter("If-Match")]}}


def test_a_body_of_any_type_is_one_of_the_other_types() -> None:
    def document(*types: str) -> dict[str, Any]:
        return {
            "paths": {
                "/Photo/{id}/picture": {
                    "put": {"requestBody": {"required": True, "content": {name: {} for name in types}}}
                }
            }
        }

    assert described.testable(document("application/octet-stream", "*/*")) == document("application/octet-stream")
    assert described.testable(document("text/plain")) == document("text/plain")


def test_each_is_a_parameter_of_the_document() -> None:
    """One that is named otherwise there would be asked for again, and nobody would notice but by waiting."""
    source = (ROOT / "src" / "openapi" / "paths.rs").read_text(encoding="utf-8")
    for reference in described.LEFT_OUT:
        assert f'"{reference.rsplit("/", 1)[1]}": ' in source
