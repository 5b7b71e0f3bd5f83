/* What the JAR's private HDF5 calls stdout and stderr: packaging/jar/CMakeLists.txt renames its references to
 * these. */
#include <stdio.h>

FILE* dpi_private_stdout;
FILE* dpi_private_stderr;

__attribute__((constructor)) static void set_streams(void) {
  dpi_private_stdout = stdout;
  dpi_private_stderr = stderr;
}
