"""DeltaSoup in one process: fine-tunes of named users become one delta, without keys or a log."""
