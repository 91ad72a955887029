"""``dplan serve``: scores over HTTP."""
