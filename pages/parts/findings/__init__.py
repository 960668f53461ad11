"""Parts of the page Findings: the stored verdicts, the picture of all claims, and one claim with its figures."""
