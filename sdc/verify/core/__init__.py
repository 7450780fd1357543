"""From a table and a certificate to a verdict: `verdict.judge`. What reads published files is elsewhere."""
