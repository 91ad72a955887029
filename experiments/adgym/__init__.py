"""Few labels on the published splits of ADGym."""
