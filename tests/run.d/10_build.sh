# Configures and builds the release preset.
essential
configure release && build release
