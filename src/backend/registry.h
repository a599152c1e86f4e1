/* SPDX-License-Identifier: Apache-2.0
 * registry.h: the arms of this build. The only room that knows all of them; everyone else holds a backend that came from here.
 */
#ifndef BACKEND_REGISTRY_H
#define BACKEND_REGISTRY_H

#include "exec/backend.h"

const backend *backend_find(const char *name); /* NULL for a name that is not in this build */
const backend *backend_at(int i);              /* in order of preference, the definition last; NULL past the end */

#endif
