/* The C side of CallCost.java: the same call on the same memory, in a loop without Java. */
#include <dpi/dpi.h>
#include <jni.h>
#include <time.h>

JNIEXPORT jlong JNICALL Java_org_dpiframe_CallCost_loop(JNIEnv* env, jclass type, jlong model, jlong batch,
                                                        jlong out, jlong out_len, jlong error, jint calls) {
  struct timespec a, b;
  (void)env;
  (void)type;
  clock_gettime(CLOCK_MONOTONIC, &a);
  for (jint i = 0; i < calls; i++) {
    const dpi_status s =
        dpi_predict((dpi_model*)(intptr_t)model, (const dpi_batch*)(intptr_t)batch, (float*)(intptr_t)out,
                    (size_t)out_len, NULL, (dpi_error*)(intptr_t)error);
    if (s != DPI_OK) return -1;
  }
  clock_gettime(CLOCK_MONOTONIC, &b);
  return (jlong)(b.tv_sec - a.tv_sec) * 1000000000 + (b.tv_nsec - a.tv_nsec);
}
