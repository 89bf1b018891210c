// GraphiQL on this server's /graphql, with a first query that finds something.

import { servedTables, showServer } from "./server.js";

/** A list of the first table with a few of its attributes. */
function firstQuery(tables) {
  const table = tables[0];
  if (!table) return "# No tables are exported.\n# Add @export to a table in the schema.\n";
  const attributes = table.attributes.slice(0, 5).map((attribute) => `    ${attribute.name}\n`).join("");
  return `# Ctrl+Enter: run\n# Ctrl+Space: suggestions\n{\n  ${table.name}List(limit: 10) {\n${attributes}  }\n}\n`;
}

showServer();
const tables = await servedTables().catch(() => []);
const { React, ReactDOM, GraphiQL } = globalThis;
const fetcher = GraphiQL.createFetcher({ url: "/graphql" });
const root = ReactDOM.createRoot(document.getElementById("graphiql"));
root.render(React.createElement(GraphiQL, { fetcher, defaultQuery: firstQuery(tables), shouldPersistHeaders: false }));
