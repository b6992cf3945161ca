"""The app without the commands: what a page of `zoo-gym webui` runs."""

from zoo.gym.tui import open_app

raise SystemExit(open_app())
