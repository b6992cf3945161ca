"""Changes to the layers of a loaded model: positions, noise, kernels, routers, freezing."""
