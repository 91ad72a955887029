"""After the review: how good a detector is on rows that it has not seen, once it has learned from verdicts."""
