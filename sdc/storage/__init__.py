"""What is read and written: inputs, Parquet tables, run folders. PyArrow stays here."""
