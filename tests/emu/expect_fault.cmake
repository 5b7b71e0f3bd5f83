# cmake -DPROGRAM=... -DFAULT=... -DSAYS=... -P expect_fault.cmake: the program must fail and its report must match SAYS.
set(ENV{TSAN_OPTIONS} "$ENV{TSAN_OPTIONS}:atexit_sleep_ms=0")  # TSan waits a second for other threads otherwise
execute_process(COMMAND ${PROGRAM} ${FAULT} RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE err TIMEOUT 300)
if(status EQUAL 0)
  message(FATAL_ERROR "the planted fault '${FAULT}' was not found:\n${out}${err}")
endif()
if(NOT "${out}${err}" MATCHES "${SAYS}")
  message(FATAL_ERROR "the planted fault '${FAULT}' gave another report than '${SAYS}':\n${out}${err}")
endif()
