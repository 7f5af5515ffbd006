"""The timeline: what ran when and where, as a Chrome trace and as a page, with three analyses."""
