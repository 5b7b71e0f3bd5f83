# Configures and builds the release preset.
# minutes: 25
essential
check "configure" configure release && check "build" build release
