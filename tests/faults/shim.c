/* Make the n-th call that changes a folder fail, or end the process there.

   Loaded before the C library (LD_PRELOAD), so that it sees what Python writes and what the
   libraries of C and C++ write.  Calls that touch nothing below the folder pass uncounted.
   Python arms it with faults_arm() and reads faults_count(). */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char folder[4096];
static long at, seen;   /* the call that fails, counted from 1; the calls so far */
static int error, last; /* the error to fail with, 0 to be killed; whether later calls fail too */
static char failed[64]; /* the name of the call that failed first */

void faults_arm(const char *below, long n, int code, int onwards) {
    snprintf(folder, sizeof folder, "%s", below);
    at = n, seen = 0, error = code, last = onwards, failed[0] = 0;
}
void faults_disarm(void) { folder[0] = 0; }
long faults_count(void) { return seen; }
const char *faults_failed(void) { return failed; }

static int below(const char *path) {
    size_t n = strlen(folder);
    return n && path && strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == 0);
}

static int below_at(int dir, const char *path) {
    if (!folder[0] || !path) return 0;
    if (path[0] == '/' || dir == AT_FDCWD) return below(path);
    char link[64], whole[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
    ssize_t n = readlink(link, whole, sizeof whole - 1);
    if (n < 0) return 0;
    whole[n] = 0;
    return below(whole);
}

static int below_fd(int fd) {
    if (!folder[0]) return 0;
    char link[64], whole[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, whole, sizeof whole - 1);
    if (n < 0) return 0;
    whole[n] = 0;
    return below(whole);
}

static void die(void) { syscall(SYS_kill, syscall(SYS_getpid), SIGKILL); for (;;) pause(); }

/* Whether this call, one of those that count, is to fail. */
static int fails(const char *name) {
    long mine = ++seen;
    if (!at || mine < at || (mine > at && !last)) return 0;
    if (!failed[0]) snprintf(failed, sizeof failed, "%s", name);
    if (!error) {
        if (strstr(name, "write")) return 1; /* it dies half way through its bytes */
        die();
    }
    errno = error;
    return 1;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define WRITES(flags) ((flags) & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC))

#define OPEN(name)                                                          \
    int name(const char *path, int flags, ...) {                            \
        va_list rest; va_start(rest, flags);                                \
        mode_t mode = va_arg(rest, mode_t); va_end(rest);                   \
        if (WRITES(flags) && below(path) && fails("open")) return -1;       \
        return NEXT(name)(path, flags, mode);                               \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                        \
    int name(int dir, const char *path, int flags, ...) {                   \
        va_list rest; va_start(rest, flags);                                \
        mode_t mode = va_arg(rest, mode_t); va_end(rest);                   \
        if (WRITES(flags) && below_at(dir, path) && fails("open")) return -1; \
        return NEXT(name)(dir, path, flags, mode);                          \
    }
OPENAT(openat)
OPENAT(openat64)

#define FOPEN(name)                                                         \
    FILE *name(const char *path, const char *mode) {                        \
        if (strpbrk(mode, "wa+x") && below(path) && fails("open")) return NULL; \
        return NEXT(name)(path, mode);                                      \
    }
FOPEN(fopen)
FOPEN(fopen64)

ssize_t write(int fd, const void *data, size_t size) {
    if (below_fd(fd) && fails("write")) {
        if (error) return -1;
        syscall(SYS_write, fd, data, size / 2);
        die();
    }
    return NEXT(write)(fd, data, size);
}

ssize_t writev(int fd, const struct iovec *parts, int n) {
    if (below_fd(fd) && fails("writev")) {
        if (error) return -1;
        syscall(SYS_write, fd, parts[0].iov_base, parts[0].iov_len / 2);
        die();
    }
    return NEXT(writev)(fd, parts, n);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t place) {
    if (below_fd(fd) && fails("pwrite")) {
        if (error) return -1;
        syscall(SYS_pwrite64, fd, data, size / 2, place);
        die();
    }
    return NEXT(pwrite64)(fd, data, size, place);
}

#define ON_FD(type, name, parameters, arguments)                            \
    type name parameters {                                                  \
        if (below_fd(fd) && fails(#name)) return -1;                        \
        return NEXT(name) arguments;                                        \
    }
ON_FD(int, fsync, (int fd), (fd))
ON_FD(int, fdatasync, (int fd), (fd))
ON_FD(int, ftruncate, (int fd, off_t size), (fd, size))
ON_FD(int, ftruncate64, (int fd, off64_t size), (fd, size))
ON_FD(int, fchmod, (int fd, mode_t mode), (fd, mode))

#define ON_PATH(name, parameters, arguments)                                \
    int name parameters {                                                   \
        if (below(path) && fails(#name)) return -1;                         \
        return NEXT(name) arguments;                                        \
    }
ON_PATH(truncate, (const char *path, off_t size), (path, size))
ON_PATH(mkdir, (const char *path, mode_t mode), (path, mode))
ON_PATH(rename, (const char *path, const char *other), (path, other))
ON_PATH(unlink, (const char *path), (path))
ON_PATH(rmdir, (const char *path), (path))
ON_PATH(link, (const char *path, const char *other), (path, other))
ON_PATH(symlink, (const char *other, const char *path), (other, path))
ON_PATH(chmod, (const char *path, mode_t mode), (path, mode))

#define ON_PATH_AT(name, parameters, arguments)                             \
    int name parameters {                                                   \
        if (below_at(dir, path) && fails(#name)) return -1;                 \
        return NEXT(name) arguments;                                        \
    }
ON_PATH_AT(mkdirat, (int dir, const char *path, mode_t mode), (dir, path, mode))
ON_PATH_AT(unlinkat, (int dir, const char *path, int flags), (dir, path, flags))
ON_PATH_AT(fchmodat, (int dir, const char *path, mode_t mode, int flags), (dir, path, mode, flags))
ON_PATH_AT(renameat, (int dir, const char *path, int to, const char *other), (dir, path, to, other))
ON_PATH_AT(renameat2, (int dir, const char *path, int to, const char *other, unsigned flags),
           (dir, path, to, other, flags))
ON_PATH_AT(linkat, (int dir, const char *path, int to, const char *other, int flags),
           (dir, path, to, other, flags))
