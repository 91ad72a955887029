"""The pages of the site, and what builds them."""
