# Compiles each source alone, which the other builds compile in units: a missing include shows.
# when: full
configure release && check "every source compiles alone" build release dpi_each_file
