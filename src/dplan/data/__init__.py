"""The paper's data sets and scenarios, and preparing anyone's own table."""
