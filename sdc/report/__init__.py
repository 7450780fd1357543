"""The audit report: one self-contained HTML page, figures as inline SVG, no script but a search in tables."""
