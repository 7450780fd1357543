"""Reading and writing: inputs, Parquet tables, run folders. PyArrow is used only here."""
