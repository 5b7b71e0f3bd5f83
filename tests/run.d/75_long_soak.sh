# The soak for 30 minutes under AddressSanitizer (a short form of it is among the tests of the release and the asan build).
# when: full
# minutes: 40
check "30 minutes of loads, predictions, swaps and refusals on 16 threads" tests/soak/run.sh 30
