"""From a call, with its options, to what the core needs in order to carry it out."""
