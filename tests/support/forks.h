/* Forks in tests. */
#ifndef RONDO_TESTS_FORKS_H
#define RONDO_TESTS_FORKS_H

/* Whether the child of a process with threads may use the heap and start threads. With the sanitizers of gcc 12 it may
 * not: they let go of no lock that another thread held at the time of the fork, so that a child hangs in malloc or free
 * about one time in ten on a busy machine, and ThreadSanitizer refuses new threads besides. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { FORKED_CHILDREN_WORK = 0 };
#else
enum { FORKED_CHILDREN_WORK = 1 };
#endif

#endif
