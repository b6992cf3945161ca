"""The training methods: a file for each. The table that names them is `zoo.gym.config.stages`."""
