"""Where the timeline looks into Lightning and torch; each module watches one thing and is pinned by a test."""
