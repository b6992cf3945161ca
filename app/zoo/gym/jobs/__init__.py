"""Runs: folders, detached workers, and files as the only interface between workers and readers.

There is no server. Any process that can read the folder can follow a run, and any process that can
write to it can pause or stop it. docs/reference/runs.md documents the layout, events and states.
"""

from zoo.gym.jobs.actions import check_answers as check_answers
from zoo.gym.jobs.actions import finish as finish
from zoo.gym.jobs.actions import kill as kill
from zoo.gym.jobs.actions import park as park
from zoo.gym.jobs.actions import pause as pause
from zoo.gym.jobs.actions import resume as resume
from zoo.gym.jobs.actions import stop as stop
from zoo.gym.jobs.clean import ANSWERS as ANSWERS
from zoo.gym.jobs.clean import Deletable as Deletable
from zoo.gym.jobs.clean import deletable_files as deletable_files
from zoo.gym.jobs.clean import deletable_of as deletable_of
from zoo.gym.jobs.clean import delete as delete
from zoo.gym.jobs.clean import ended_runs as ended_runs
from zoo.gym.jobs.control import Control as Control
from zoo.gym.jobs.control import wait_while_paused as wait_while_paused
from zoo.gym.jobs.diff import Comparison as Comparison
from zoo.gym.jobs.diff import compare as compare
from zoo.gym.jobs.events import Event as Event
from zoo.gym.jobs.events import EventLog as EventLog
from zoo.gym.jobs.events import EventReader as EventReader
from zoo.gym.jobs.events import log_end as log_end
from zoo.gym.jobs.events import tail_events as tail_events
from zoo.gym.jobs.follow import follow as follow
from zoo.gym.jobs.follow import watch as watch
from zoo.gym.jobs.launch import launch as launch
from zoo.gym.jobs.listing import list_runs as list_runs
from zoo.gym.jobs.listing import stored_yaml as stored_yaml
from zoo.gym.jobs.names import check_name as check_name
from zoo.gym.jobs.names import rename as rename
from zoo.gym.jobs.outputs import check_unclaimed as check_unclaimed
from zoo.gym.jobs.remove import remove as remove
from zoo.gym.jobs.remove import size_bytes as size_bytes
from zoo.gym.jobs.run import Kind as Kind
from zoo.gym.jobs.run import Run as Run
from zoo.gym.jobs.run import create_run as create_run
from zoo.gym.jobs.run import kind_of as kind_of
from zoo.gym.jobs.run import open_run as open_run
from zoo.gym.jobs.run import run_around as run_around
from zoo.gym.jobs.run import run_folders as run_folders
from zoo.gym.jobs.state import State as State
from zoo.gym.jobs.state import Status as Status
from zoo.gym.jobs.state import displayed_state as displayed_state
from zoo.gym.jobs.state import is_finishing as is_finishing
from zoo.gym.jobs.state import read_status as read_status
from zoo.gym.jobs.state import reconcile as reconcile
from zoo.gym.jobs.state import state_name as state_name
from zoo.gym.store import RunRow as RunRow
from zoo.gym.train.run_folder.ended import Ended as Ended
from zoo.gym.train.run_folder.ended import keeps_only_model as keeps_only_model
from zoo.gym.train.run_folder.ended import read_ended as read_ended
