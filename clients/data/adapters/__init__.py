"""One file per source of pictures: how its folder and tables become a manifest."""
