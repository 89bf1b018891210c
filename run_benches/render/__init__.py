"""The output that people see: pages, pictures, tables and reports, all made from what is stored."""
