// C11's threads in terms of pthread's, for builds under ThreadSanitizer: Debian's librdkafka is made with the
// first, which glibc starts and locks behind the sanitizer's back, so that it crashes in threads it has not
// heard of. These come before libc's. Types are of one size and meaning in glibc.
#include <pthread.h>
#include <threads.h>

#include <cerrno>
#include <memory>

namespace {

static_assert(sizeof(mtx_t) == sizeof(pthread_mutex_t) && sizeof(cnd_t) == sizeof(pthread_cond_t));

pthread_mutex_t* mutex(mtx_t* m) { return reinterpret_cast<pthread_mutex_t*>(m); }
pthread_cond_t* condition(cnd_t* c) { return reinterpret_cast<pthread_cond_t*>(c); }

int told(int error) {
  if (error == 0) return thrd_success;
  return error == ETIMEDOUT ? thrd_timedout : error == EBUSY ? thrd_busy : thrd_error;
}

struct Start {
  thrd_start_t run;
  void* argument;
};

void* run(void* start) {
  const std::unique_ptr<Start> s(static_cast<Start*>(start));
  s->run(s->argument);
  return nullptr;  // librdkafka asks for no thread's result
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int thrd_create(thrd_t* thread, thrd_start_t function, void* argument) {
  auto start = std::make_unique<Start>(Start{function, argument});
  const int error = pthread_create(thread, nullptr, run, start.get());
  if (error == 0) start.release();
  return told(error);
}
int thrd_join(thrd_t thread, int* result) {
  if (result != nullptr) *result = 0;
  return told(pthread_join(thread, nullptr));
}
int thrd_detach(thrd_t thread) { return told(pthread_detach(thread)); }

int mtx_init(mtx_t* m, int type) {
  pthread_mutexattr_t kind;
  pthread_mutexattr_init(&kind);
  if ((type & mtx_recursive) != 0) pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
  return told(pthread_mutex_init(mutex(m), &kind));
}
int mtx_lock(mtx_t* m) { return told(pthread_mutex_lock(mutex(m))); }
int mtx_trylock(mtx_t* m) { return told(pthread_mutex_trylock(mutex(m))); }
int mtx_unlock(mtx_t* m) { return told(pthread_mutex_unlock(mutex(m))); }
void mtx_destroy(mtx_t* m) { pthread_mutex_destroy(mutex(m)); }

int cnd_init(cnd_t* c) { return told(pthread_cond_init(condition(c), nullptr)); }
int cnd_signal(cnd_t* c) { return told(pthread_cond_signal(condition(c))); }
int cnd_broadcast(cnd_t* c) { return told(pthread_cond_broadcast(condition(c))); }
int cnd_wait(cnd_t* c, mtx_t* m) { return told(pthread_cond_wait(condition(c), mutex(m))); }
int cnd_timedwait(cnd_t* c, mtx_t* m, const timespec* until) {
  return told(pthread_cond_timedwait(condition(c), mutex(m), until));
}
void cnd_destroy(cnd_t* c) { pthread_cond_destroy(condition(c)); }

}  // extern "C"
#pragma GCC visibility pop
