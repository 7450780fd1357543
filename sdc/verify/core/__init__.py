"""From a table and a certificate to a verdict: `verdict.judge`. Published files are read elsewhere."""
