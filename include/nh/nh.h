/* SPDX-License-Identifier: Apache-2.0
 * nh.h: all of libnemotron. A program in five calls: nh_model_open, nh_engine_open, nh_tokenize, nh_engine_submit, nh_request_next.
 * No function exits, prints or reads the environment.
 */
#ifndef NH_H
#define NH_H

#include "nh_engine.h"
#include "nh_event.h"
#include "nh_model.h"
#include "nh_request.h"
#include "nh_session.h"
#include "nh_tensors.h"
#include "nh_text.h"
#include "nh_types.h"
#include "nh_version.h"

#endif
