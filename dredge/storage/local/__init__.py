"""Objects as plain files below a folder."""
