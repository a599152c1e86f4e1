/* SPDX-License-Identifier: Apache-2.0
 * nh_shared.c: the one source of the shared library: everything else comes from the rooms' archives.
 */
typedef int nh_shared_is_not_empty;
