"""Who is tried first: the order of pending jobs. Nothing about room or eviction may enter here."""
