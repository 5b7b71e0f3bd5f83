# cmake -DPROGRAM=fuzz_replay -DTARGET=... -DARCHIVE=... -DFOLDER=... -P replay_archive.cmake: unpacks a corpus and replays it.
file(REMOVE_RECURSE ${FOLDER})
file(ARCHIVE_EXTRACT INPUT ${ARCHIVE} DESTINATION ${FOLDER})
execute_process(COMMAND ${PROGRAM} ${TARGET} ${FOLDER} RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${TARGET}: the replay ended with ${status}")
endif()
