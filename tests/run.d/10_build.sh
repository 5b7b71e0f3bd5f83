# Configures and builds the release preset.
essential
check "configure" configure release && check "build" build release
