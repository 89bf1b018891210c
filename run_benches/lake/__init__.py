"""The parts that the scenario `cold-storage` needs beside the load tool: `strata-lake`, an object store with a
catalogue, foreign readers, and checks."""
