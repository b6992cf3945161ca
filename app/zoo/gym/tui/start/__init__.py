"""The form that starts a training: file, model, settings, command."""
