"""The one page skeleton, style sheet and set of charts for every page that dplan writes."""
