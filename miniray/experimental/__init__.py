"""What Ray calls experimental: `tqdm_ray`, progress bars of many workers on one screen."""
