"""Claims asked again of a hospital with other notes: rarer names, inserted names, more generic notes."""
