# The soak for 30 minutes under AddressSanitizer (every build runs a short form).
# when: full
check "30 minutes of loads, predictions, swaps and refusals on 16 threads" tests/soak/run.sh 30
