"""The app in a terminal: what bare `zoo-gym` opens.

It only looks and asks: what trains is a worker of its own that outlives it, and whatever needs a
heavy library runs as a command beside it, so this process never loads torch.
"""


def open_app() -> int:
    """Opens the app, returns when the user leaves it, and tells the exit code."""
    from zoo.gym.tui.app import GymApp
    from zoo.models.offline import go_offline

    go_offline()

    app = GymApp()
    app.run()
    return app.return_code or 0
