"""Right answers on ordinary texts, by real parties; see ``__main__``."""
