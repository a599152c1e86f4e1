/* SPDX-License-Identifier: Apache-2.0
 * fuzz_file.h: bytes as a file, for targets whose subject opens paths too: it lies in memory and has a name while it is open.
 */
#ifndef FUZZ_FILE_H
#define FUZZ_FILE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Its descriptor, for the caller to close; path gets its name. */
static inline int fuzz_file(char path[40], const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (fd < 0) abort();
	for (size_t done = 0; done < size;) {
		ssize_t n = write(fd, data + done, size - done);
		if (n <= 0) abort();
		done += (size_t)n;
	}
	snprintf(path, 40, "/proc/self/fd/%d", fd);
	return fd;
}

#endif
