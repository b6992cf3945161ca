"""The app in a terminal: what bare `zoo-gym` opens.

It shows runs and controls them. Training happens in worker processes that outlive it, and whatever
needs a heavy library runs as a command in another process, so this one never loads torch.
"""


def open_app() -> int:
    """Opens the app, and returns its exit code when the user quits; raises what ended it else."""
    from zoo.gym.offline import go_offline
    from zoo.gym.tui.app import GymApp

    go_offline()

    app = GymApp()
    app.run()
    if app.fault is not None:
        raise app.fault
    return app.return_code or 0
