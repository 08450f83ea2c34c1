"""foretoken on Ray Serve: `serve run foretoken_ray.application:build config=...`; docs/scale.md."""
