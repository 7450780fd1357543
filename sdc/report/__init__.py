"""The audit report, for the agency's eyes."""
