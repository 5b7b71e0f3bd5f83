# The soak for 30 minutes under AddressSanitizer (a short form of it is among the tests of every build).
# when: full
check "30 minutes of loads, predictions, swaps and refusals on 16 threads" tests/soak/run.sh 30
