CREATE TABLE answering (
  id INTEGER NOT NULL,
  model VARCHAR(100) NOT NULL,
  version INTEGER NOT NULL,
  made_for VARCHAR(100) NOT NULL,
  subgroup VARCHAR(100) NOT NULL,
  pattern VARCHAR(200) NOT NULL,
  labels JSON NOT NULL,
  PRIMARY KEY (id),
  CONSTRAINT uq_answering UNIQUE (model, version, subgroup, pattern)
);
CREATE TABLE outcomes_schema (
  number INTEGER NOT NULL,
  PRIMARY KEY (number)
);
CREATE TABLE answer_counts (
  answering INTEGER NOT NULL,
  day DATE NOT NULL,
  cell SMALLINT NOT NULL,
  n INTEGER NOT NULL,
  PRIMARY KEY (answering, day, cell),
  FOREIGN KEY(answering) REFERENCES answering (id)
);
CREATE TABLE answers (
  id VARCHAR(36) NOT NULL,
  day DATE NOT NULL,
  answering INTEGER NOT NULL,
  "key" VARCHAR(32),
  cell SMALLINT NOT NULL,
  label SMALLINT NOT NULL,
  in_set VARCHAR(1000) NOT NULL,
  PRIMARY KEY (id),
  FOREIGN KEY(answering) REFERENCES answering (id)
);
CREATE INDEX ix_answers_day ON answers (day);
CREATE TABLE outcomes (
  number INTEGER NOT NULL,
  answer VARCHAR(36) NOT NULL,
  label SMALLINT,
  confirmed_by VARCHAR(20) NOT NULL,
  confirmed_on DATE NOT NULL,
  known_on DATE NOT NULL,
  "key" VARCHAR(32),
  current BOOLEAN NOT NULL,
  withdrawn BOOLEAN NOT NULL,
  PRIMARY KEY (number),
  FOREIGN KEY(answer) REFERENCES answers (id)
);
CREATE INDEX ix_outcomes_answer ON outcomes (answer);
CREATE INDEX ix_outcomes_known_on ON outcomes (known_on);
INSERT INTO answering (id, model, version, made_for, subgroup, pattern, labels) VALUES (1, 'demo', 1, 'global', 'dark', '', '[["MEL", true], ["NV", false], ["BCC", true]]');
INSERT INTO outcomes_schema (number) VALUES (1);
INSERT INTO answer_counts (answering, day, cell, n) VALUES (1, '2026-01-01', 108, 1);
INSERT INTO answer_counts (answering, day, cell, n) VALUES (1, '2026-01-02', 51, 1);
INSERT INTO answer_counts (answering, day, cell, n) VALUES (1, '2026-01-03', 51, 1);
INSERT INTO answer_counts (answering, day, cell, n) VALUES (1, '2026-01-04', 108, 1);
INSERT INTO answer_counts (answering, day, cell, n) VALUES (1, '2026-01-05', 51, 1);
INSERT INTO answer_counts (answering, day, cell, n) VALUES (1, '2026-01-06', 51, 1);
INSERT INTO answer_counts (answering, day, cell, n) VALUES (1, '2026-01-07', 108, 1);
INSERT INTO answer_counts (answering, day, cell, n) VALUES (1, '2026-01-08', 51, 1);
INSERT INTO answer_counts (answering, day, cell, n) VALUES (1, '2026-01-09', 51, 1);
INSERT INTO answer_counts (answering, day, cell, n) VALUES (1, '2026-01-10', 108, 1);
INSERT INTO answer_counts (answering, day, cell, n) VALUES (1, '2026-01-11', 51, 1);
INSERT INTO answer_counts (answering, day, cell, n) VALUES (1, '2026-01-12', 51, 1);
INSERT INTO answer_counts (answering, day, cell, n) VALUES (1, '2026-01-13', 108, 1);
INSERT INTO answer_counts (answering, day, cell, n) VALUES (1, '2026-01-14', 51, 1);
INSERT INTO answer_counts (answering, day, cell, n) VALUES (1, '2026-01-15', 51, 1);
INSERT INTO answer_counts (answering, day, cell, n) VALUES (1, '2026-01-16', 108, 1);
INSERT INTO answer_counts (answering, day, cell, n) VALUES (1, '2026-01-17', 51, 1);
INSERT INTO answer_counts (answering, day, cell, n) VALUES (1, '2026-01-18', 51, 1);
INSERT INTO answer_counts (answering, day, cell, n) VALUES (1, '2026-01-19', 108, 1);
INSERT INTO answer_counts (answering, day, cell, n) VALUES (1, '2026-01-20', 51, 1);
INSERT INTO answer_counts (answering, day, cell, n) VALUES (1, '2026-01-21', 51, 1);
INSERT INTO answer_counts (answering, day, cell, n) VALUES (1, '2026-01-22', 108, 1);
INSERT INTO answer_counts (answering, day, cell, n) VALUES (1, '2026-01-23', 51, 1);
INSERT INTO answer_counts (answering, day, cell, n) VALUES (1, '2026-01-24', 51, 1);
INSERT INTO answer_counts (answering, day, cell, n) VALUES (1, '2026-01-25', 108, 1);
INSERT INTO answer_counts (answering, day, cell, n) VALUES (1, '2026-01-26', 51, 1);
INSERT INTO answer_counts (answering, day, cell, n) VALUES (1, '2026-01-27', 51, 1);
INSERT INTO answer_counts (answering, day, cell, n) VALUES (1, '2026-01-28', 108, 1);
INSERT INTO answer_counts (answering, day, cell, n) VALUES (1, '2026-01-29', 51, 1);
INSERT INTO answer_counts (answering, day, cell, n) VALUES (1, '2026-01-30', 51, 1);
INSERT INTO answers (id, day, answering, key, cell, label, in_set) VALUES ('cd613e30-d8f1-4adf-91b7-584a2265b1f5', '2026-01-01', 1, 'k1', 108, 0, '100');
INSERT INTO answers (id, day, answering, key, cell, label, in_set) VALUES ('1e2feb89-414c-443c-9027-c4d1c386bbc4', '2026-01-02', 1, 'k1', 51, 1, '010');
INSERT INTO answers (id, day, answering, key, cell, label, in_set) VALUES ('78e51061-7311-48a3-82ce-6f447ed4d57b', '2026-01-03', 1, 'k1', 51, 1, '010');
INSERT INTO answers (id, day, answering, key, cell, label, in_set) VALUES ('35bf992d-c9e9-4616-a12e-7696a6cecc1b', '2026-01-04', 1, 'k1', 108, 0, '100');
INSERT INTO answers (id, day, answering, key, cell, label, in_set) VALUES ('e4b06ce6-0741-47a8-bce4-2c8218072e8c', '2026-01-05', 1, 'k1', 51, 1, '010');
INSERT INTO answers (id, day, answering, key, cell, label, in_set) VALUES ('9b810e76-6ec9-4286-a3ca-828dd5f4b3b2', '2026-01-06', 1, 'k1', 51, 1, '010');
INSERT INTO answers (id, day, answering, key, cell, label, in_set) VALUES ('b2221a58-008a-45a6-8464-7159c324c985', '2026-01-07', 1, 'k1', 108, 0, '100');
INSERT INTO answers (id, day, answering, key, cell, label, in_set) VALUES ('cd447e35-b8b6-48fe-842e-3d437204e52d', '2026-01-08', 1, 'k1', 51, 1, '010');
INSERT INTO answers (id, day, answering, key, cell, label, in_set) VALUES ('1a2b8f1f-f1fd-42a2-9755-d4c13a902931', '2026-01-09', 1, 'k1', 51, 1, '010');
INSERT INTO answers (id, day, answering, key, cell, label, in_set) VALUES ('05b6e6e3-07d4-4edc-9143-1193e6c3f339', '2026-01-10', 1, 'k1', 108, 0, '100');
INSERT INTO answers (id, day, answering, key, cell, label, in_set) VALUES ('025b413f-8a9a-421e-a648-a7dd06839eb9', '2026-01-11', 1, 'k1', 51, 1, '010');
INSERT INTO answers (id, day, answering, key, cell, label, in_set) VALUES ('afbd67f9-6196-49cf-a198-8ad9f06c144a', '2026-01-12', 1, 'k1', 51, 1, '010');
INSERT INTO answers (id, day, answering, key, cell, label, in_set) VALUES ('b9d179e0-6c0f-44f5-b813-0c4237730edf', '2026-01-13', 1, 'k1', 108, 0, '100');
INSERT INTO answers (id, day, answering, key, cell, label, in_set) VALUES ('c381e88f-38c0-48fd-8712-b8bc076f3787', '2026-01-14', 1, 'k1', 51, 1, '010');
INSERT INTO answers (id, day, answering, key, cell, label, in_set) VALUES ('8d88348a-7eed-4d14-b06d-3fef701966a0', '2026-01-15', 1, 'k1', 51, 1, '010');
INSERT INTO answers (id, day, answering, key, cell, label, in_set) VALUES ('ad45f23d-3b1a-41df-987f-d2803bab6c39', '2026-01-16', 1, 'k1', 108, 0, '100');
INSERT INTO answers (id, day, answering, key, cell, label, in_set) VALUES ('f3c64af7-75a8-4294-82cd-789a380208a9', '2026-01-17', 1, 'k1', 51, 1, '010');
INSERT INTO answers (id, day, answering, key, cell, label, in_set) VALUES ('6a8ac4ba-0580-4975-ad2f-89d94a2f20aa', '2026-01-18', 1, 'k1', 51, 1, '010');
INSERT INTO answers (id, day, answering, key, cell, label, in_set) VALUES ('ec148cb4-8e73-4a47-aa90-a8f0d66b829e', '2026-01-19', 1, 'k1', 108, 0, '100');
INSERT INTO answers (id, day, answering, key, cell, label, in_set) VALUES ('a11d459a-2f97-4d87-9999-9e3fa46d6753', '2026-01-20', 1, 'k1', 51, 1, '010');
INSERT INTO answers (id, day, answering, key, cell, label, in_set) VALUES ('4be03db0-dc25-44bd-b940-67edfe175330', '2026-01-21', 1, 'k1', 51, 1, '010');
INSERT INTO answers (id, day, answering, key, cell, label, in_set) VALUES ('e5446dd4-552b-42f6-be3e-dc0a1ef2a4f0', '2026-01-22', 1, 'k1', 108, 0, '100');
INSERT INTO answers (id, day, answering, key, cell, label, in_set) VALUES ('803468b6-b610-49f7-b927-0f4eb8b333a8', '2026-01-23', 1, 'k1', 51, 1, '010');
INSERT INTO answers (id, day, answering, key, cell, label, in_set) VALUES ('81f9c1f6-6c0f-4459-b79b-17aeefba91fc', '2026-01-24', 1, 'k1', 51, 1, '010');
INSERT INTO answers (id, day, answering, key, cell, label, in_set) VALUES ('3099fdf5-ab99-454a-a901-e35cd47d380d', '2026-01-25', 1, 'k1', 108, 0, '100');
INSERT INTO answers (id, day, answering, key, cell, label, in_set) VALUES ('f9341c68-966b-4ea1-88be-ab134da98f1d', '2026-01-26', 1, 'k1', 51, 1, '010');
INSERT INTO answers (id, day, answering, key, cell, label, in_set) VALUES ('f0dfb4a5-d8a0-44df-bfd6-3116e1ea24c4', '2026-01-27', 1, 'k1', 51, 1, '010');
INSERT INTO answers (id, day, answering, key, cell, label, in_set) VALUES ('da711448-96c8-4a19-a4b2-d2bc815a47c5', '2026-01-28', 1, 'k1', 108, 0, '100');
INSERT INTO answers (id, day, answering, key, cell, label, in_set) VALUES ('be6521cc-3e24-44e3-baf0-27bc08d6af57', '2026-01-29', 1, 'k1', 51, 1, '010');
INSERT INTO answers (id, day, answering, key, cell, label, in_set) VALUES ('aa2ca1af-6a10-4b75-a77f-6cbdcc22af58', '2026-01-30', 1, 'k1', 51, 1, '010');
INSERT INTO outcomes (number, answer, label, confirmed_by, confirmed_on, known_on, key, current, withdrawn) VALUES (1, 'cd613e30-d8f1-4adf-91b7-584a2265b1f5', 0, 'histopathology', '2026-02-10', '2026-02-10', 'k1', false, false);
INSERT INTO outcomes (number, answer, label, confirmed_by, confirmed_on, known_on, key, current, withdrawn) VALUES (2, '1e2feb89-414c-443c-9027-c4d1c386bbc4', 1, 'histopathology', '2026-02-10', '2026-02-10', 'k1', true, false);
INSERT INTO outcomes (number, answer, label, confirmed_by, confirmed_on, known_on, key, current, withdrawn) VALUES (3, '78e51061-7311-48a3-82ce-6f447ed4d57b', 1, 'histopathology', '2026-02-10', '2026-02-10', 'k1', true, false);
INSERT INTO outcomes (number, answer, label, confirmed_by, confirmed_on, known_on, key, current, withdrawn) VALUES (4, '35bf992d-c9e9-4616-a12e-7696a6cecc1b', 0, 'histopathology', '2026-02-10', '2026-02-10', 'k1', true, false);
INSERT INTO outcomes (number, answer, label, confirmed_by, confirmed_on, known_on, key, current, withdrawn) VALUES (5, 'e4b06ce6-0741-47a8-bce4-2c8218072e8c', 1, 'histopathology', '2026-02-10', '2026-02-10', 'k1', true, false);
INSERT INTO outcomes (number, answer, label, confirmed_by, confirmed_on, known_on, key, current, withdrawn) VALUES (6, '9b810e76-6ec9-4286-a3ca-828dd5f4b3b2', 0, 'histopathology', '2026-02-10', '2026-02-10', 'k1', true, false);
INSERT INTO outcomes (number, answer, label, confirmed_by, confirmed_on, known_on, key, current, withdrawn) VALUES (7, 'b2221a58-008a-45a6-8464-7159c324c985', 0, 'histopathology', '2026-02-10', '2026-02-10', 'k1', true, false);
INSERT INTO outcomes (number, answer, label, confirmed_by, confirmed_on, known_on, key, current, withdrawn) VALUES (8, 'cd447e35-b8b6-48fe-842e-3d437204e52d', 1, 'histopathology', '2026-02-10', '2026-02-10', 'k1', true, false);
INSERT INTO outcomes (number, answer, label, confirmed_by, confirmed_on, known_on, key, current, withdrawn) VALUES (9, '1a2b8f1f-f1fd-42a2-9755-d4c13a902931', 1, 'histopathology', '2026-02-10', '2026-02-10', 'k1', true, false);
INSERT INTO outcomes (number, answer, label, confirmed_by, confirmed_on, known_on, key, current, withdrawn) VALUES (10, '05b6e6e3-07d4-4edc-9143-1193e6c3f339', 0, 'histopathology', '2026-02-10', '2026-02-10', 'k1', true, false);
INSERT INTO outcomes (number, answer, label, confirmed_by, confirmed_on, known_on, key, current, withdrawn) VALUES (11, '025b413f-8a9a-421e-a648-a7dd06839eb9', 0, 'histopathology', '2026-02-10', '2026-02-10', 'k1', true, false);
INSERT INTO outcomes (number, answer, label, confirmed_by, confirmed_on, known_on, key, current, withdrawn) VALUES (12, 'afbd67f9-6196-49cf-a198-8ad9f06c144a', 1, 'histopathology', '2026-02-10', '2026-02-10', 'k1', true, false);
INSERT INTO outcomes (number, answer, label, confirmed_by, confirmed_on, known_on, key, current, withdrawn) VALUES (13, 'cd613e30-d8f1-4adf-91b7-584a2265b1f5', 1, 'histopathology', '2026-02-11', '2026-02-11', 'k1', true, false);
